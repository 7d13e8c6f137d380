// SPDX-License-Identifier: MIT
// Compiled with -fno-access-control (see CMakeLists.txt): these members of ALE's classes have no functions.
#include "emulator_state.h"

#include "failure.h"

#include <cstring>
#include <utility>
#include <vector>

#include <ale/emucore/CartDPC.hxx>
#include <ale/emucore/System.hxx>
#include <ale/emucore/TIA.hxx>
#include <ale/games/supported/ChopperCommand.hpp>
#include <ale/games/supported/DemonAttack.hpp>
#include <ale/games/supported/MiniatureGolf.hpp>

namespace gpur_atari
{

namespace
{

using ale::stella::CartridgeDPC;
using ale::stella::System;
using ale::stella::TIA;

enum { SCREEN_BYTES = 160 * 300 }; // as TIA allocates them

struct Rest {
    // TIA, the video chip: both screens, where it draws, and the masks that it draws objects by.
    uint8_t current[SCREEN_BYTES], previous[SCREEN_BYTES];
    int32_t next_pixel;
    int32_t ball, missile[2], player[2], playfield;
    uint8_t frame_is_partial, frame_is_gray;

    uint8_t data_bus;
    int32_t last_action; // which a sticky action repeats
    float last_strength;

    double dpc_clock; // of the chip in Pitfall II's cartridge: the saved state rounds it
    uint8_t rules[32];
};

// Masks are pointers into tables that are the same in every TIA. Missiles can be in a table of their own, in which
// all is disabled: those are negative.
int32_t missile_offset(const uint8_t *mask)
{
    const uintptr_t disabled =
        reinterpret_cast<uintptr_t>(mask) - reinterpret_cast<uintptr_t>(TIA::ourDisabledMaskTable);
    if (disabled < sizeof TIA::ourDisabledMaskTable)
        return -1 - static_cast<int32_t>(disabled);
    return static_cast<int32_t>(mask - &TIA::ourMissleMaskTable[0][0][0][0]);
}

const uint8_t *missile_mask(int32_t offset)
{
    return offset < 0 ? TIA::ourDisabledMaskTable + (-1 - offset) : &TIA::ourMissleMaskTable[0][0][0][0] + offset;
}

TIA &tia_of(ale::ALEInterface &ale)
{
    return dynamic_cast<TIA &>(ale.theOSystem->console().mediaSource());
}

// The chip, or NULL: one game has it.
CartridgeDPC *dpc_of(const System &system)
{
    for (uint32_t i = 0; i < system.myNumberOfDevices; i++)
        if (auto *const dpc = dynamic_cast<CartridgeDPC *>(system.myDevices[i]))
            return dpc;
    return nullptr;
}

void save_tia(const TIA &tia, Rest *rest)
{
    std::memcpy(rest->current, tia.myCurrentFrameBuffer, SCREEN_BYTES);
    std::memcpy(rest->previous, tia.myPreviousFrameBuffer, SCREEN_BYTES);
    rest->next_pixel = static_cast<int32_t>(tia.myFramePointer - tia.myCurrentFrameBuffer);
    rest->ball = static_cast<int32_t>(tia.myCurrentBLMask - &TIA::ourBallMaskTable[0][0][0]);
    rest->missile[0] = missile_offset(tia.myCurrentM0Mask);
    rest->missile[1] = missile_offset(tia.myCurrentM1Mask);
    rest->player[0] = static_cast<int32_t>(tia.myCurrentP0Mask - &TIA::ourPlayerMaskTable[0][0][0][0]);
    rest->player[1] = static_cast<int32_t>(tia.myCurrentP1Mask - &TIA::ourPlayerMaskTable[0][0][0][0]);
    rest->playfield = static_cast<int32_t>(tia.myCurrentPFMask - &TIA::ourPlayfieldTable[0][0]);
    rest->frame_is_partial = tia.myPartialFrameFlag;
    rest->frame_is_gray = tia.myFrameGreyed;
}

void load_tia(TIA &tia, const Rest &rest)
{
    std::memcpy(tia.myCurrentFrameBuffer, rest.current, SCREEN_BYTES);
    std::memcpy(tia.myPreviousFrameBuffer, rest.previous, SCREEN_BYTES);
    tia.myFramePointer = tia.myCurrentFrameBuffer + rest.next_pixel;
    tia.myCurrentBLMask = &TIA::ourBallMaskTable[0][0][0] + rest.ball;
    tia.myCurrentM0Mask = missile_mask(rest.missile[0]);
    tia.myCurrentM1Mask = missile_mask(rest.missile[1]);
    tia.myCurrentP0Mask = &TIA::ourPlayerMaskTable[0][0][0][0] + rest.player[0];
    tia.myCurrentP1Mask = &TIA::ourPlayerMaskTable[0][0][0][0] + rest.player[1];
    tia.myCurrentPFMask = &TIA::ourPlayfieldTable[0][0] + rest.playfield;
    tia.myPartialFrameFlag = rest.frame_is_partial;
    tia.myFrameGreyed = rest.frame_is_gray;
}

// Members that the rules of some games do not save, or only as true and false.
std::vector<std::pair<void *, size_t>> lost_members(ale::RomSettings *rules)
{
    if (auto *const chopper = dynamic_cast<ale::ChopperCommandSettings *>(rules))
        return {{&chopper->m_is_started, sizeof chopper->m_is_started}};
    if (auto *const demon = dynamic_cast<ale::DemonAttackSettings *>(rules))
        return {{&demon->m_level_change, sizeof demon->m_level_change}};
    if (auto *const golf = dynamic_cast<ale::MiniatureGolfSettings *>(rules))
        return {{&golf->m_levelNumber, sizeof golf->m_levelNumber},
                {&golf->m_levelPar, sizeof golf->m_levelPar},
                {&golf->m_hits, sizeof golf->m_hits},
                {&golf->m_leftStatus, sizeof golf->m_leftStatus},
                {&golf->m_hitsAtStartOfLevel, sizeof golf->m_hitsAtStartOfLevel}};
    return {};
}

} // namespace

std::string save_rest(ale::ALEInterface &ale)
{
    Rest rest;
    std::memset(&rest, 0, sizeof rest); // padding, too: equal states are equal bytes
    const System &system = ale.theOSystem->console().system();
    save_tia(tia_of(ale), &rest);
    rest.data_bus = system.myDataBusState;
    rest.last_action = ale.environment->m_player_a_action;
    rest.last_strength = ale.environment->m_paddle_a_strength;
    if (const auto *const dpc = dpc_of(system))
        rest.dpc_clock = dpc->myFractionalClocks;
    uint8_t *to = rest.rules;
    for (const auto &[member, size] : lost_members(ale.romSettings.get())) {
        std::memcpy(to, member, size);
        to += size;
    }
    return std::string(reinterpret_cast<const char *>(&rest), sizeof rest);
}

void load_rest(ale::ALEInterface &ale, const std::string &bytes)
{
    Rest rest;
    if (bytes.size() != sizeof rest)
        throw Failure("the saved state has %zu bytes of the emulator, not %zu", bytes.size(), sizeof rest);
    std::memcpy(&rest, bytes.data(), sizeof rest);
    System &system = ale.theOSystem->console().system();
    load_tia(tia_of(ale), rest);
    system.myDataBusState = rest.data_bus;
    ale.environment->m_player_a_action = static_cast<ale::Action>(rest.last_action);
    ale.environment->m_paddle_a_strength = rest.last_strength;
    if (auto *const dpc = dpc_of(system))
        dpc->myFractionalClocks = rest.dpc_clock;
    const uint8_t *from = rest.rules;
    for (const auto &[member, size] : lost_members(ale.romSettings.get())) {
        std::memcpy(member, from, size);
        from += size;
    }
}

} // namespace gpur_atari

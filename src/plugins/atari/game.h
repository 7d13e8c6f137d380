// SPDX-License-Identifier: MIT
// A game by the rules under which agents are compared.
#pragma once

#include "area.h"
#include "emulator.h"
#include "options.h"

#include <memory>
#include <random>
#include <vector>

#include <gpureplay/env.h>

namespace gpur_atari
{

class Game
{
  public:
    Game(const Options &options, uint64_t seed);

    void describe_to(gpur_env_info *info) const; // as much as info->size holds
    void reset(uint8_t *obs);
    void step(int32_t action, uint8_t *obs, gpur_env_result *result);
    void save(uint8_t *state);
    void load(const uint8_t *state);

  private:
    // All that changes, except the emulator and the screens. Copied as bytes into a saved state.
    struct Progress {
        std::mt19937 noops; // draws how many
        int64_t frames;     // of this game, without those of its beginning
        int32_t lives;      // after the last step
        int32_t reward;     // of the frames that no step has reported yet
        uint8_t is_open;    // an episode is: step can be called
        uint8_t goes_on;    // the last episode ended by a lost life: the next one is of the same game
    };

    void begin_game();
    void play(ale::Action action);
    void observe(uint8_t *obs);
    size_t save_bytes() const;

    Options options_;
    Emulator emulator_;
    ale::ActionVect actions_;
    bool presses_fire_;
    int channels_;
    AreaShrink shrink_;
    // Of a step's last two frames: [0] the last one, [1] the one before. observe() leaves the larger values in [0].
    std::vector<uint8_t> screens_[2];
    Progress progress_ = {};
    size_t max_emulator_bytes_;
};

} // namespace gpur_atari

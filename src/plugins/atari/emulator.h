// SPDX-License-Identifier: MIT
// An Atari 2600 that runs one game, by ALE.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ale/ale_interface.hpp>

namespace gpur_atari
{

// "MsPacman" (as in Gymnasium's names) and "ms_pacman" are "ms_pacman". "" if ALE has no rules for such a game.
std::string rom_name(const std::string &game);

// The games whose ROMs lie in the folder where find_rom looks without `roms`, in the order of their names.
std::vector<std::string> rom_names();

// The file of a game's ROM: `rom` if it is not "", else game.bin in a folder: `roms` if it is not "", else the one that
// the environment variable ALE_ROMS_DIR names, else roms beside the plug-in. `game` may be "" if `rom` is given, and is
// filled in. Throws if there is no such file or if it is not that game's ROM, by its MD5: ALE would end the process.
std::string find_rom(std::string *game, const std::string &rom, const std::string &roms);

class Emulator
{
  public:
    // rom: from find_rom. sticky: probability with which a frame repeats the action of the frame before, drawn by seed.
    Emulator(const std::string &rom, int seed, float sticky);

    // Begins a game.
    void reset();
    // Plays a frame, and returns its reward.
    int act(ale::Action action);

    bool over() const;
    int lives();
    ale::ActionVect actions(bool full);

    int width() const;
    int height() const;
    // The screen (height, width), gray, or (height, width, 3) in colors.
    void screen(bool grayscale, uint8_t *pixels);

    // The whole state, and back to it. Its size varies by some hundred bytes; max_state_bytes(), which depends on the
    // game alone, is enough at any time.
    std::string save();
    void load(const std::string &state);
    size_t max_state_bytes();

  private:
    std::unique_ptr<ale::ALEInterface> ale_;
};

} // namespace gpur_atari

// SPDX-License-Identifier: MIT
// The options of a game.
#pragma once

#include <string>

namespace gpur_atari
{

struct Options {
    std::string game, rom, roms;
    int frame_skip = 4, max_noops = 30, fire_reset = 1, episodic_life = 1, max_frames = 108000;
    int size = 84, grayscale = 1, maxpool = 1, full_action_space = 0;
    float sticky = 0;
};

// The help of every option but `game`, a line each; and that of `game`.
extern const char *const options_help;
extern const char *const game_help;

// Reads "name=value,name=value". `game` is the game's name in ALE, or "" where the options name it. Throws what is
// wrong.
Options read_options(const char *text, const std::string &game);

// All that a saved state depends on, for comparing: the game and every option except where the ROM lies.
std::string describe(const Options &options);

} // namespace gpur_atari

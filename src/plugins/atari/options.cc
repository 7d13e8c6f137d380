// SPDX-License-Identifier: MIT
#include "options.h"

#include "failure.h"

#include <algorithm>
#include <charconv>

namespace gpur_atari
{

const char *const game_help = "game=               the game, as ALE calls it: pong, ms_pacman, ...\n";
const char *const options_help =
    "frame_skip=4        frames for which an action lasts\n"
    "max_noops=30        a game begins with up to so many frames of doing nothing, drawn by the seed\n"
    "fire_reset=1        1: FIRE is pressed when a game begins, where it is among the actions\n"
    "episodic_life=1     1: a lost life ends an episode, and the game goes on in the next one\n"
    "sticky=0            probability with which a frame repeats the action of the frame before\n"
    "max_frames=108000   frames after which a game is cut off; 0: never\n"
    "size=84             pixels of the observation, either way\n"
    "grayscale=1         0: three colors, (size, size, 3)\n"
    "maxpool=1           1: of each pixel the larger value of the last two frames\n"
    "full_action_space=0 1: all 18 actions, in place of those that do something in the game\n"
    "rom=                the game's ROM\n"
    "roms=               the folder of the ROMs; else ALE_ROMS_DIR, else the folder roms beside the plug-in\n";

namespace
{

struct Whole {
    const char *name;
    int Options::*value;
    int low, high;
};

const Whole wholes[] = {
    {"frame_skip", &Options::frame_skip, 1, 1000},
    {"max_noops", &Options::max_noops, 0, 1000},
    {"fire_reset", &Options::fire_reset, 0, 1},
    {"episodic_life", &Options::episodic_life, 0, 1},
    {"max_frames", &Options::max_frames, 0, 1000000000},
    {"size", &Options::size, 16, 159},
    {"grayscale", &Options::grayscale, 0, 1},
    {"maxpool", &Options::maxpool, 0, 1},
    {"full_action_space", &Options::full_action_space, 0, 1},
};

struct Words {
    const char *name;
    std::string Options::*value;
};

const Words words[] = {{"game", &Options::game}, {"rom", &Options::rom}, {"roms", &Options::roms}};

// The number that the whole of a text is.
bool read_number(const std::string &text, double *number)
{
    const char *const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, *number);
    return read.ec == std::errc() && read.ptr == end;
}

void set_whole(Options *options, const Whole &option, const std::string &value)
{
    double number = 0;
    if (!read_number(value, &number) || !(number >= option.low && number <= option.high) ||
        number != static_cast<int>(number))
        throw Failure("option %s is \"%s\"; it must be a whole number from %d to %d", option.name, value.c_str(),
                      option.low, option.high);
    options->*option.value = static_cast<int>(number);
}

void set_sticky(Options *options, const std::string &value)
{
    double number = 0;
    if (!read_number(value, &number) || !(number >= 0 && number < 1))
        throw Failure("option sticky is \"%s\"; it must be a probability, at least 0 and less than 1", value.c_str());
    options->sticky = static_cast<float>(number);
}

std::string known_names(bool has_game)
{
    std::string all = "sticky";
    for (const Whole &option : wholes)
        all = all + ", " + option.name;
    for (const Words &option : words)
        if (has_game || option.value != &Options::game)
            all = all + ", " + option.name;
    return all;
}

void set(Options *options, const std::string &name, const std::string &value, bool has_game)
{
    if (name == "sticky")
        return set_sticky(options, value);
    for (const Whole &option : wholes)
        if (name == option.name)
            return set_whole(options, option, value);
    for (const Words &option : words)
        if (name == option.name && (has_game || option.value != &Options::game)) {
            options->*option.value = value;
            return;
        }
    throw Failure("unknown option \"%s\"; known are %s", name.c_str(), known_names(has_game).c_str());
}

} // namespace

Options read_options(const char *text, const std::string &game)
{
    Options options;
    options.game = game;
    const std::string all = text ? text : "";
    for (size_t begin = 0; begin < all.size();) {
        const size_t end = std::min(all.find(',', begin), all.size());
        const std::string item = all.substr(begin, end - begin);
        const size_t equals = item.find('=');
        if (equals == std::string::npos)
            throw Failure("option \"%s\" has no value; options are \"name=value,name=value\"", item.c_str());
        set(&options, item.substr(0, equals), item.substr(equals + 1), game.empty());
        begin = end + 1;
    }
    return options;
}

std::string describe(const Options &options)
{
    std::string all = options.game;
    for (const Whole &option : wholes)
        all += std::string(",") + option.name + "=" + std::to_string(options.*option.value);
    char sticky[32];
    std::snprintf(sticky, sizeof sticky, ",sticky=%.9g", static_cast<double>(options.sticky));
    return all + sticky;
}

} // namespace gpur_atari

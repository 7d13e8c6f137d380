// SPDX-License-Identifier: MIT
//
// The rules of Mnih et al. 2015 (Methods; extended data table 1), and of Machado et al. 2018 as options. The order of
// events and of draws from random numbers is that of ale-py's AtariVectorEnv, so that the same seed and actions show
// the same frames. docs/atari.md has the exceptions.
#include "game.h"

#include "failure.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <zlib.h>

namespace gpur_atari
{

namespace
{

// ALE's seeds are ints that are not negative. A seed of that kind is taken as it is.
int seed_for_ale(uint64_t seed)
{
    return static_cast<int>((seed ^ seed >> 31 ^ seed >> 62) & 0x7fffffff);
}

Options with_rom(Options options)
{
    options.rom = find_rom(&options.game, options.rom, options.roms);
    return options;
}

// A saved state begins with this. Then come Progress, both screens, and the bytes of the emulator.
struct Header {
    char magic[8];
    char description[240]; // of the game and its options
    uint64_t emulator_bytes;
    uint64_t checksum; // crc32 of all that follows
};

const char magic[8] = {'g', 'p', 'u', 'r', 'A', 'L', 'E', '1'};

Header header_for(const Options &options)
{
    Header header = {};
    std::memcpy(header.magic, magic, sizeof magic);
    std::snprintf(header.description, sizeof header.description, "%s", describe(options).c_str());
    return header;
}

uint64_t checksum(const uint8_t *bytes, size_t count)
{
    return crc32(0, bytes, static_cast<uInt>(count));
}

} // namespace

Game::Game(const Options &options, uint64_t seed)
    : options_(with_rom(options)), emulator_(options_.rom, seed_for_ale(seed), options_.sticky),
      actions_(emulator_.actions(options_.full_action_space)),
      presses_fire_(options_.fire_reset &&
                    std::find(actions_.begin(), actions_.end(), ale::PLAYER_A_FIRE) != actions_.end()),
      channels_(options_.grayscale ? 1 : 3), shrink_(emulator_.width(), emulator_.height(), channels_, options_.size),
      max_emulator_bytes_(emulator_.max_state_bytes())
{
    for (std::vector<uint8_t> &screen : screens_)
        screen.resize(static_cast<size_t>(emulator_.width()) * emulator_.height() * channels_);
    progress_.noops.seed(static_cast<unsigned>(seed_for_ale(seed)));
}

void Game::describe_to(gpur_env_info *info) const
{
    gpur_space obs = {}, action = {};
    obs.dtype = GPUR_UINT8;
    obs.shape[0] = obs.shape[1] = options_.size;
    obs.shape[2] = options_.grayscale ? 0 : channels_;
    obs.high = 255;
    action.dtype = GPUR_INT32;
    action.num_actions = static_cast<int32_t>(actions_.size());
    action.high = static_cast<float>(actions_.size() - 1);
    gpur_env_info all = {};
    all.size = info->size;
    all.obs = obs;
    all.action = action;
    all.max_steps = (options_.max_frames + options_.frame_skip - 1) / options_.frame_skip;
    all.save_bytes = static_cast<int64_t>(save_bytes());
    std::memcpy(info, &all, std::min<size_t>(info->size, sizeof all));
}

void Game::begin_game()
{
    emulator_.reset();
    int noops = std::uniform_int_distribution<>(0, options_.max_noops)(progress_.noops);
    if (presses_fire_) {
        emulator_.act(ale::PLAYER_A_FIRE);
        noops--; // FIRE takes the place of one
    }
    for (; noops > 0; noops--) {
        emulator_.act(ale::PLAYER_A_NOOP);
        if (emulator_.over())
            emulator_.reset();
    }
    emulator_.screen(options_.grayscale, screens_[0].data());
    std::fill(screens_[1].begin(), screens_[1].end(), uint8_t(0));
    progress_.frames = 0;
    progress_.reward = 0;
}

// The screen of the frame that ends a game is not looked at: where a game ends amid a step, the screens are of frames
// before.
void Game::play(ale::Action action)
{
    for (int left = options_.frame_skip; left > 0; left--) {
        progress_.reward += emulator_.act(action);
        progress_.frames++;
        if (emulator_.over())
            break;
        if (left <= 2)
            emulator_.screen(options_.grayscale, screens_[left - 1].data());
    }
}

void Game::observe(uint8_t *obs)
{
    if (options_.maxpool)
        std::transform(screens_[0].begin(), screens_[0].end(), screens_[1].begin(), screens_[0].begin(),
                       [](uint8_t last, uint8_t before) { return std::max(last, before); });
    shrink_(screens_[0].data(), obs);
}

void Game::reset(uint8_t *obs)
{
    if (progress_.goes_on)
        play(ale::PLAYER_A_NOOP);
    else
        begin_game();
    observe(obs);
    progress_.lives = emulator_.lives();
    progress_.goes_on = 0;
    progress_.is_open = 1;
}

void Game::step(int32_t action, uint8_t *obs, gpur_env_result *result)
{
    if (!progress_.is_open)
        throw Failure("no episode is open: reset must be called before step");
    if (action < 0 || action >= static_cast<int32_t>(actions_.size()))
        throw Failure("action is %d; it must be 0 to %zu", static_cast<int>(action), actions_.size() - 1);
    play(actions_[action]);
    observe(obs);
    const int lives = emulator_.lives();
    const bool lost_life = options_.episodic_life && lives < progress_.lives && lives > 0;
    const bool at_limit = options_.max_frames > 0 && progress_.frames >= options_.max_frames;
    *result = {};
    result->reward = static_cast<float>(progress_.reward);
    result->terminated = emulator_.over() || lost_life;
    result->truncated = at_limit && !result->terminated;
    result->continues = lost_life && !emulator_.over() && !at_limit;
    progress_.reward = 0;
    progress_.lives = lives;
    progress_.is_open = !result->terminated && !result->truncated;
    progress_.goes_on = result->continues;
}

size_t Game::save_bytes() const
{
    return sizeof(Header) + sizeof(Progress) + 2 * screens_[0].size() + max_emulator_bytes_;
}

void Game::save(uint8_t *state)
{
    static_assert(std::is_trivially_copyable<Progress>::value, "is copied as bytes");
    const std::string emulator = emulator_.save();
    if (emulator.size() > max_emulator_bytes_)
        throw Failure("the emulator's state has %zu bytes; at most %zu are known", emulator.size(),
                      max_emulator_bytes_);
    std::memset(state, 0, save_bytes());
    uint8_t *to = state + sizeof(Header);
    std::memcpy(to, &progress_, sizeof progress_);
    to += sizeof progress_;
    for (const std::vector<uint8_t> &screen : screens_)
        to = std::copy(screen.begin(), screen.end(), to);
    std::copy(emulator.begin(), emulator.end(), to);
    Header header = header_for(options_);
    header.emulator_bytes = emulator.size();
    header.checksum = checksum(state + sizeof header, save_bytes() - sizeof header);
    std::memcpy(state, &header, sizeof header);
}

void Game::load(const uint8_t *state)
{
    const Header wanted = header_for(options_);
    Header header;
    std::memcpy(&header, state, sizeof header);
    if (std::memcmp(header.magic, magic, sizeof magic) != 0)
        throw Failure("the bytes are no state of an Atari game that this version saved");
    header.description[sizeof header.description - 1] = 0;
    if (std::strcmp(header.description, wanted.description) != 0)
        throw Failure("the state is of \"%s\"; it must be of \"%s\"", header.description, wanted.description);
    if (header.emulator_bytes > max_emulator_bytes_ ||
        header.checksum != checksum(state + sizeof header, save_bytes() - sizeof header))
        throw Failure("the saved state is damaged: its checksum is another");
    const uint8_t *from = state + sizeof header;
    std::memcpy(&progress_, from, sizeof progress_);
    from += sizeof progress_;
    for (std::vector<uint8_t> &screen : screens_) {
        std::copy(from, from + screen.size(), screen.begin());
        from += screen.size();
    }
    emulator_.load(std::string(from, from + header.emulator_bytes));
}

} // namespace gpur_atari

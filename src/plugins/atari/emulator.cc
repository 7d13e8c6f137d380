// SPDX-License-Identifier: MIT
#include "emulator.h"

#include "emulator_state.h"
#include "failure.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <iterator>

#include <ale/common/Log.hpp>
#include <ale/emucore/Deserializer.hxx>
#include <ale/emucore/MD5.hxx>
#include <ale/emucore/Random.hxx>
#include <ale/emucore/Serializer.hxx>
#include <ale/emucore/System.hxx>
#include <ale/games/RomSettings.hpp>
#include <ale/games/Roms.hpp>

namespace gpur_atari
{

namespace
{

using Rules = std::unique_ptr<ale::RomSettings>;

// The folder of the shared object that this is part of. The loader may know it as seen from the working folder only.
std::string find_plugin_folder()
{
    Dl_info info;
    if (!dladdr(reinterpret_cast<void *>(&find_plugin_folder), &info) || !info.dli_fname)
        return ".";
    return fs::absolute(info.dli_fname).parent_path().string();
}

const std::string plugin_folder = find_plugin_folder(); // when it is loaded

std::string roms_folder(const std::string &roms)
{
    if (!roms.empty())
        return roms;
    const char *const environment = std::getenv("ALE_ROMS_DIR");
    return environment && *environment ? environment : plugin_folder + "/roms";
}

std::string read_file(const std::string &path)
{
    std::error_code error;
    std::ifstream file(path, std::ios::binary);
    if (!file || !fs::is_regular_file(path, error))
        throw Failure("the ROM \"%s\" cannot be read: option rom names the file, option roms or the environment "
                      "variable ALE_ROMS_DIR the folder",
                      path.c_str());
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

size_t text_bytes(ale::stella::Random &generator)
{
    ale::stella::Serializer text;
    generator.saveState(text);
    return text.get_str().size() - sizeof(int32_t); // without its length
}

} // namespace

// Gymnasium makes a name by a capital for each first letter, also after a digit: tic_tac_toe_3d is TicTacToe3D.
std::string rom_name(const std::string &game)
{
    std::string name;
    for (size_t i = 0; i < game.size(); i++) {
        const auto letter = static_cast<unsigned char>(game[i]);
        const bool before_capital = i + 1 < game.size() && std::isupper(static_cast<unsigned char>(game[i + 1]));
        const bool after_digit = i > 0 && std::isdigit(static_cast<unsigned char>(game[i - 1]));
        if (i > 0 && ((std::isupper(letter) && !after_digit) || (std::isdigit(letter) && before_capital)))
            name += '_';
        name += static_cast<char>(std::tolower(letter));
    }
    return Rules(ale::buildRomRLWrapper(name + ".bin", "")) ? name : "";
}

std::vector<std::string> rom_names()
{
    std::vector<std::string> names;
    std::error_code error; // a folder that cannot be read has no games
    for (fs::directory_iterator file(roms_folder(""), error), end; !error && file != end; file.increment(error))
        if (file->path().extension() == ".bin" && rom_name(file->path().stem().string()) == file->path().stem())
            names.push_back(file->path().stem().string());
    std::sort(names.begin(), names.end());
    return names;
}

std::string find_rom(std::string *game, const std::string &rom, const std::string &roms)
{
    if (rom.empty() && game->empty())
        throw Failure("neither option game nor option rom is given; one must be: game=pong, for example");
    const std::string path = rom.empty() ? roms_folder(roms) + "/" + *game + ".bin" : rom;
    const std::string bytes = read_file(path);
    const std::string md5 =
        ale::stella::MD5(reinterpret_cast<const uint8_t *>(bytes.data()), static_cast<uint32_t>(bytes.size()));
    const Rules rules(ale::buildRomRLWrapper(path, md5)); // by the file's name or by its MD5, as loadROM does
    if (!rules || rules->md5() != md5)
        throw Failure("\"%s\" is not the ROM of %s: its MD5 is %s, which must be %s", path.c_str(),
                      rules ? rules->rom() : "a game of ALE", md5.c_str(), rules ? rules->md5() : "that of one");
    if (!game->empty() && *game != rules->rom())
        throw Failure("\"%s\" is the ROM of %s; it must be that of %s", path.c_str(), rules->rom(), game->c_str());
    *game = rules->rom();
    return path;
}

Emulator::Emulator(const std::string &rom, int seed, float sticky) : ale_(std::make_unique<ale::ALEInterface>())
{
    ale_->setInt("random_seed", seed);
    ale_->setFloat("repeat_action_probability", sticky);
    ale_->loadROM(rom);
}

void Emulator::reset()
{
    ale_->reset_game();
}

int Emulator::act(ale::Action action)
{
    return ale_->act(action);
}

bool Emulator::over() const
{
    return ale_->game_over();
}

int Emulator::lives()
{
    return ale_->lives();
}

ale::ActionVect Emulator::actions(bool full)
{
    return full ? ale_->getLegalActionSet() : ale_->getMinimalActionSet();
}

int Emulator::width() const
{
    return static_cast<int>(ale_->getScreen().width());
}

int Emulator::height() const
{
    return static_cast<int>(ale_->getScreen().height());
}

void Emulator::screen(bool grayscale, uint8_t *pixels)
{
    ale::ColourPalette &palette = ale_->theOSystem->colourPalette();
    const ale::ALEScreen &screen = ale_->getScreen();
    const size_t count = screen.width() * screen.height();
    if (grayscale)
        palette.applyPaletteGrayscale(pixels, screen.getArray(), count);
    else
        palette.applyPaletteRGB(pixels, screen.getArray(), count);
}

std::string Emulator::save()
{
    ale::stella::Serializer all;
    all.putString(ale_->cloneSystemState().serialize());
    all.putString(save_rest(*ale_));
    return all.get_str();
}

void Emulator::load(const std::string &state)
{
    ale::stella::Deserializer all(state);
    ale_->restoreSystemState(ale::ALEState(all.getString()));
    load_rest(*ale_, all.getString());
}

// Two random number generators, of the console and of the sticky actions, are written as decimals: 624 words and a
// position, each of 10 digits and a space at most.
size_t Emulator::max_state_bytes()
{
    const size_t longest = 625 * 11;
    return save().size() - text_bytes(ale_->environment->getEnvironmentRNG()) -
           text_bytes(ale_->theOSystem->console().system().rng()) + 2 * longest;
}

} // namespace gpur_atari

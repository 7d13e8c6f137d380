// SPDX-License-Identifier: MIT
// What ALE's own saved state leaves out.
#pragma once

#include <string>

#include <ale/ale_interface.hpp>

namespace gpur_atari
{

// ALEInterface::cloneSystemState saves what a game's logic needs. A game that goes on from it in a new emulator can
// still differ in some pixels and in sticky actions. These bytes are the rest: with them it goes on with the same bits.
std::string save_rest(ale::ALEInterface &ale);
void load_rest(ale::ALEInterface &ale, const std::string &bytes);

} // namespace gpur_atari

/* SPDX-License-Identifier: MIT */
#include "support/episode_kit.h" /* the name that tests of other folders know it by */

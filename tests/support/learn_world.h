/* SPDX-License-Identifier: MIT */
#include "support/learner_fixture.h"

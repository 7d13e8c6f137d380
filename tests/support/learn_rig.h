/* SPDX-License-Identifier: MIT */
#include "base/status.h"
#include "learn/network/pass.h"
#include "support/learner_fixture.h"

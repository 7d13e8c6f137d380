/* SPDX-License-Identifier: MIT */
/* Actors in threads of this process, which append their blocks themselves. */
#pragma once

#include "run/apex/transport/transport.h"

extern const gpur_transport gpur_thread_transport;

# SPDX-License-Identifier: MIT
# cmake --install, find_package(gpureplay) and pkg-config.

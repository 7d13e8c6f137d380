# SPDX-License-Identifier: MIT
# Debian packages by `cpack -G DEB`, in a build that was configured with -DCMAKE_INSTALL_PREFIX=/usr: the library, which
# can lie beside that of another minor version; what programs are compiled with; and gpureplay-train.
if(NOT GPUREPLAY_INSTALL OR NOT TARGET gpureplay-train)
    return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
    WORLD_EXECUTE)
set(CPACK_PACKAGE_VENDOR "The libgpureplay authors")
set(CPACK_PACKAGE_CONTACT "The libgpureplay authors" CACHE STRING "Who maintains packages: Name <address>")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian_files.cmake)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL runtime development program)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
    "Replay memory for deep reinforcement learning, networks, learners and whole
trainings, on CPUs and CUDA. This is the shared library.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "Headers, the static library, and files for CMake and pkg-config.")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
    "gpureplay-train trains agents by fast DQN, QR-DQN, C51, DQN(lambda), DDPG, TD3,
SAC, Ape-X, GA3C, A3C and A2C, and plays, evaluates and compares what it has
trained.")
set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS runtime)
set(CPACK_COMPONENT_PROGRAM_DEPENDS runtime)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}) # of the program's own library
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libgpureplay${GPUREPLAY_SOVERSION})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/triggers)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libgpureplay-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS
    "libopenblas-openmp-dev, libdnnl-dev, libcjson-dev, libzstd-dev, pkg-config, cmake") # for the static library
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME gpureplay)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
include(CPack)

# SPDX-License-Identifier: MIT
# Rules for cmake --install, find_package(gpureplay) and pkg-config.
if(NOT GPUREPLAY_INSTALL)
    return()
endif()
include(CMakePackageConfigHelpers)

# Each component is a package of GpureplayPackage.cmake: runtime, development, program.
install(TARGETS gpureplay gpureplay_static EXPORT gpureplayTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
if(gpureplay_modules) # the library looks beside itself
    install(TARGETS ${gpureplay_modules} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
    FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)

# find_package: the exported targets, and a config file that finds what the static library needs.
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gpureplay)
set(openblas_dir "")
if(GPUREPLAY_HAS_BLAS)
    get_filename_component(openblas_dir ${OPENBLAS_LIBRARY} DIRECTORY)
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/gpureplayConfig.cmake.in
    ${PROJECT_BINARY_DIR}/gpureplayConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gpureplayConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gpureplayConfig.cmake ${PROJECT_BINARY_DIR}/gpureplayConfigVersion.cmake
    DESTINATION ${package_dir} COMPONENT development)
install(EXPORT gpureplayTargets NAMESPACE gpureplay:: DESTINATION ${package_dir} COMPONENT development)

# pkg-config: paths are relative to the .pc file, so that an installed tree can be moved.
set(pc_libs_private "")
foreach(library IN LISTS GPUREPLAY_STATIC_NEEDS)
    if(IS_ABSOLUTE "${library}")
        string(APPEND pc_libs_private " ${library}") # no linker searches the folder of the static cudart
    else()
        string(APPEND pc_libs_private " -l${library}")
    endif()
endforeach()
if(GPUREPLAY_HAS_BLAS)
    string(PREPEND pc_libs_private " -L${openblas_dir} -lopenblas")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(pc_prefix ${CMAKE_INSTALL_PREFIX})
    set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
    set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
    file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
    set(pc_prefix "\${pcfiledir}/${up}")
    set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/gpureplay.pc.in ${PROJECT_BINARY_DIR}/gpureplay.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gpureplay.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT development)

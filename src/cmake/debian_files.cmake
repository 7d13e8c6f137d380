# SPDX-License-Identifier: MIT
# Run by cpack before it makes Debian packages: what Debian wants of each of them beside what is installed.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(version ${CPACK_PACKAGE_VERSION})
set(changelog "gpureplay (${version}) unstable; urgency=medium\n\n  * Version ${version}.\n\n")
string(APPEND changelog " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
set(folders ${CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS})
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
    string(TOUPPER ${component} name)
    set(root ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr)
    file(REMOVE_RECURSE ${root}/share/doc)
    get_filename_component(license ${CPACK_RESOURCE_FILE_LICENSE} NAME)
    set(doc ${root}/share/doc/${CPACK_DEBIAN_${name}_PACKAGE_NAME})
    file(COPY ${CPACK_RESOURCE_FILE_LICENSE} DESTINATION ${doc} FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ
        WORLD_READ DIRECTORY_PERMISSIONS ${folders})
    file(RENAME ${doc}/${license} ${doc}/copyright)
    file(WRITE ${doc}/changelog "${changelog}")
    execute_process(COMMAND gzip -9n ${doc}/changelog COMMAND_ERROR_IS_FATAL ANY)
    file(CHMOD ${doc}/changelog.gz PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endforeach()
# Debian searches its own folders.
file(RPATH_REMOVE FILE ${CPACK_TEMPORARY_DIRECTORY}/program/usr/bin/gpureplay-train)

# vcpkg.cmake: runs a portfile without vcpkg, whose functions do here what they do of the work:
#   cmake -DPORTFILE=.. -DPORT=miras -DCURRENT_BUILDTREES_DIR=.. -DCURRENT_PACKAGES_DIR=.. -P FILE
# They fail where vcpkg would: without a package in share/PORT, a file for pkg-config, a licence.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_QUIET)
  if(failed)
    message(FATAL_ERROR "failed: ${ARGN}")
  endif()
endfunction()

function(there pattern)
  file(GLOB found "${CURRENT_PACKAGES_DIR}/${pattern}")
  if(NOT found)
    message(FATAL_ERROR "there is no ${pattern}")
  endif()
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  run("${CMAKE_COMMAND}" -S "${arg_SOURCE_PATH}" -B "${CURRENT_BUILDTREES_DIR}"
    "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}" ${arg_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
  run("${CMAKE_COMMAND}" --install "${CURRENT_BUILDTREES_DIR}")
endfunction()

function(vcpkg_cmake_config_fixup)
  there("share/${PORT}/${PORT}-config.cmake")
  there("share/${PORT}/${PORT}-targets.cmake")
endfunction()

function(vcpkg_fixup_pkgconfig)
  there("share/pkgconfig/*.pc")
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  configure_file("${arg_FILE_LIST}" "${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright" COPYONLY)
endfunction()

include("${PORTFILE}")

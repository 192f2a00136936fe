# CMake package of the runtime library: find_package(relaxrt), then link relaxrt::relaxrt.
get_filename_component(_relaxrt_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
include(CMakeFindDependencyMacro)
find_dependency(Threads)
if(NOT TARGET relaxrt::relaxrt)
  add_library(relaxrt::relaxrt STATIC IMPORTED)
  set_target_properties(relaxrt::relaxrt PROPERTIES
    IMPORTED_LOCATION "${_relaxrt_prefix}/lib/librelaxrt.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_relaxrt_prefix}/include"
    INTERFACE_LINK_LIBRARIES "pthreadpool;Threads::Threads;m")
endif()

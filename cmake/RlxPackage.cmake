# The two libraries that others link, and what `cmake --install` gives them.
#
#   librlx.so           Support, Data, Runtime and the C API: no LLVM, no MLIR
#   librlx-compiler.so  the rest, over librlx.so; the runtime opens it when it first needs a compiler
#
# They are made of the objects of the static libraries, so that the runtime is in a program once.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

file(READ ${CMAKE_SOURCE_DIR}/include/rlx/rlx.h header)
foreach(part MAJOR MINOR PATCH)
  if(NOT header MATCHES "#define RLX_VERSION_${part} ${PROJECT_VERSION_${part}}\n")
    message(FATAL_ERROR "rlx.h is not of version ${PROJECT_VERSION}: RLX_VERSION_${part}")
  endif()
endforeach()

# rlx_shared_library(Name FILE name EXPORT set AS target MAP version-script OBJECTS libraries... LINK ...)
function(rlx_shared_library name)
  cmake_parse_arguments(ARG "" "FILE;EXPORT;AS;MAP" "OBJECTS;LINK" ${ARGN})
  set(objects)
  foreach(library ${ARG_OBJECTS})
    list(APPEND objects $<TARGET_OBJECTS:${library}>)
  endforeach()
  add_library(${name} SHARED ${objects})
  target_link_libraries(${name} ${ARG_LINK})
  target_link_options(${name} PRIVATE -Wl,--version-script=${ARG_MAP} -Wl,--gc-sections)
  if(NOT RLX_SANITIZE) # whose functions are the program's
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(${name} PROPERTIES
    OUTPUT_NAME ${ARG_FILE} EXPORT_NAME ${ARG_AS} LINKER_LANGUAGE CXX LINK_DEPENDS ${ARG_MAP}
    # Before 1.0 the C++ interface changes with every minor version.
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    INSTALL_RPATH $ORIGIN)
  target_include_directories(${name} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${name} INTERFACE c_std_99)
  install(TARGETS ${name} EXPORT ${ARG_EXPORT} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

find_package(Protobuf REQUIRED)
find_package(ONNX REQUIRED)

rlx_shared_library(RlxShared FILE rlx EXPORT RlxTargets AS C MAP ${CMAKE_SOURCE_DIR}/cmake/rlx.map
  OBJECTS RlxSupport RlxData RlxRuntime RlxCAPI
  LINK PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
rlx_shared_library(RlxCompilerShared FILE rlx-compiler EXPORT RlxCompilerTargets AS Compiler
  MAP ${CMAKE_SOURCE_DIR}/cmake/rlx-compiler.map
  OBJECTS RlxDialect RlxTransforms RlxKernels RlxCodegen RlxImport RlxCompiler
  LINK PUBLIC RlxShared PRIVATE onnx_proto protobuf::libprotobuf MLIR LLVM)

# Headers. The compiler's go in too: they are there for whoever has MLIR.
set(rooms Support Data Runtime Compiler Import Dialect Transforms)
foreach(room ${rooms})
  foreach(root ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
    install(DIRECTORY ${root}/include/rlx/${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rlx OPTIONAL
      FILES_MATCHING PATTERN "*.h" PATTERN "*.h.inc" PATTERN "CMakeFiles" EXCLUDE)
  endforeach()
endforeach()
install(FILES include/rlx/rlx.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rlx)

# find_package(Rlx)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Rlx)
install(EXPORT RlxTargets NAMESPACE Rlx:: DESTINATION ${config_dir})
install(EXPORT RlxCompilerTargets NAMESPACE Rlx:: DESTINATION ${config_dir})
configure_package_config_file(cmake/RlxConfig.cmake.in ${CMAKE_BINARY_DIR}/RlxConfig.cmake
  INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/RlxConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/RlxConfig.cmake ${CMAKE_BINARY_DIR}/RlxConfigVersion.cmake DESTINATION ${config_dir})

# pkg-config
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_prefix /prefix/${pc_dir} /prefix)
foreach(file rlx rlx-compiler)
  configure_file(cmake/${file}.pc.in ${CMAKE_BINARY_DIR}/${file}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${file}.pc DESTINATION ${pc_dir})
endforeach()

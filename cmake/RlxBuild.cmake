# Packages, flags, and the functions every room uses to declare its library, tool or tests.

find_package(MLIR 22.1 REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
set(LLVM_DEFAULT_EXTERNAL_LIT "${LLVM_TOOLS_BINARY_DIR}/lit")

find_package(FlatBuffers REQUIRED CONFIG)  # its headers alone are used
find_program(FLATC_EXECUTABLE flatc REQUIRED)
find_package(Threads REQUIRED)

include_directories(${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/include)
include_directories(SYSTEM ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})

# Errors are values: no exceptions in the libraries. RTTI stays on, as in the packages.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -fvisibility-inlines-hidden)
if(RLX_SANITIZE)
  add_compile_options(-fsanitize=${RLX_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${RLX_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    # That check reads what lies before a function: nothing, in front of the first kernel of a region.
    add_compile_options(-fno-sanitize=function)
  endif()
endif()

# rlx_library(Name SOURCES ... [LINK ...] [DEPENDS ...] [COMPILER])
# COMPILER: links the MLIR and LLVM dylibs. Without it the library must not include their headers.
function(rlx_library name)
  cmake_parse_arguments(ARG "COMPILER;EXCEPTIONS" "" "SOURCES;LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  if(ARG_COMPILER)
    target_link_libraries(${name} PUBLIC MLIR LLVM)
  endif()
  if(NOT ARG_EXCEPTIONS)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>)
  endif()
  add_dependencies(${name} RlxPlanData ${ARG_DEPENDS})
  if(ARG_COMPILER AND NOT name STREQUAL "RlxDialect")
    add_dependencies(${name} RlxDialectIncGen)
  endif()
endfunction()

# rlx_tool(name SOURCES ... LINK ...): an executable in <build>/bin. Exceptions on (CLI11).
function(rlx_tool name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  install(TARGETS ${name} RUNTIME DESTINATION bin)
endfunction()

# rlx_unittest(Name SOURCES ... LINK ...): a GoogleTest program registered with CTest and run by lit.
function(rlx_unittest name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/unittests/bin)
  add_test(NAME ${name} COMMAND ${name})
  add_dependencies(RlxUnitTests ${name})
endfunction()

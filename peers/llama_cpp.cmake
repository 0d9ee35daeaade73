# Read behind `project(llama_cpp)` of llama-cpp-python's CMakeLists.txt (CMAKE_PROJECT_llama_cpp_INCLUDE), which switches
# llama.cpp's library for command-line programs on, whatever is asked for. A plain variable hides its cache entry. The
# peers call ggml and llama alone: this leaves out a third of the build.
set(LLAMA_BUILD_COMMON OFF)

//===- NoCompiler.cpp - a library that is no compiler ---------------------===//
extern "C" int nothingOfUse();
extern "C" int nothingOfUse() { return 0; }

//===- Load.cpp - from a file to a model ----------------------------------===//
#include "rlx/Runtime/Load.h"

#include "EngineParts.h"
#include "WorkerCompiler.h"

using namespace rlx;

Result<std::shared_ptr<CompilerSource>> CompilerSlot::get(Engine &engine) {
  std::lock_guard lock(mutex);
  if (source)
    return source;
  const EngineOptions &options = engine.options();
  if (options.compiler == CompilerPlace::Worker) {
    source = makeWorkerSource(options.worker, engine.threads());
  } else if (options.compilerSource) {
    source = options.compilerSource;
  } else {
    Result<std::shared_ptr<CompilerSource>> opened = openCompilerLibrary();
    if (!opened)
      return opened.takeError();
    source = std::move(*opened);
  }
  return source;
}

Result<LoadedModel> rlx::loadModel(Engine &engine, const std::string &path, const LoadOptions &options) {
  Result<std::shared_ptr<CompilerSource>> source = engine.parts().compiler.get(engine);
  if (!source)
    return source.takeError();
  return (*source)->loadModel(path, options);
}

Result<LoadedModel> rlx::loadModule(Engine &engine, std::string_view text, std::shared_ptr<WeightTable> weights,
                                    const LoadOptions &options) {
  // MLIR's reader of bytecode is not safe on bytes from elsewhere.
  if (text.starts_with("ML\xefR"))
    return Error{ErrorCode::Unsupported, "a module is taken in text form, not as MLIR bytecode"};
  if (!options.weightsFile.empty() || options.dynamicInputs)
    return Error{ErrorCode::InvalidArgument, "a module in memory has no weights file, and its dims are as it says"};
  Result<std::shared_ptr<CompilerSource>> source = engine.parts().compiler.get(engine);
  if (!source)
    return source.takeError();
  return (*source)->loadModule(text, std::move(weights), options);
}

//===- Model.cpp - loading models, and what they declare ------------------===//
#include "Handles.h"

#include "rlx/Runtime/Load.h"
#include "rlx/Runtime/WeightTable.h"

using namespace rlx;
using namespace rlx::capi;

namespace {

rlx_tensor_info describe(Texts &texts, const data::TensorSpecT &spec, const std::vector<DimExpr> &dims) {
  rlx_tensor_info info = {};
  info.struct_size = sizeof info;
  info.name = texts.text(spec.name);
  info.dtype = fromType(spec.type);
  info.rank = static_cast<int32_t>(spec.shape.size());
  std::vector<int64_t> sizes;
  for (const DimExpr &dim : dims)
    sizes.push_back(dim.constant().value_or(-1));
  info.shape = texts.array(std::move(sizes));
  info.dims = texts.texts(spec.shape);
  return info;
}

rlx_model *makeModel(LoadedModel loaded) {
  auto *made = new rlx_model;
  made->model = std::move(loaded.model);
  const data::ModelSignatureT &signature = made->model->signature();
  Texts &texts = made->texts;
  for (const auto &dim : signature.dims) {
    rlx_dim_info info = {};
    info.struct_size = sizeof info;
    info.name = texts.text(dim->name);
    info.min = dim->min;
    info.max = dim->max;
    info.multiple = dim->multiple;
    info.likely = texts.array(dim->likely);
    info.likely_count = dim->likely.size();
    info.paddable = dim->paddable;
    info.obstacle = texts.text(dim->obstacle);
    made->dims.push_back(info);
  }
  for (size_t i = 0; i != signature.inputs.size(); ++i)
    made->inputs.push_back(describe(texts, *signature.inputs[i], made->model->inputShapes()[i]));
  for (size_t i = 0; i != signature.outputs.size(); ++i)
    made->outputs.push_back(describe(texts, *signature.outputs[i], made->model->outputShapes()[i]));
  for (size_t i = 0; i != signature.params.size(); ++i)
    made->params.push_back(describe(texts, *signature.params[i], made->model->paramShapes()[i]));
  rlx_model_info &info = made->info;
  info.struct_size = sizeof info;
  info.name = texts.text(signature.name);
  info.dim_count = made->dims.size();
  info.input_count = made->inputs.size();
  info.output_count = made->outputs.size();
  info.param_count = made->params.size();
  info.warnings = texts.texts(loaded.warnings);
  info.warning_count = loaded.warnings.size();
  return made;
}

template <typename Info>
rlx_status *pick(const char *kind, const std::vector<Info> &infos, size_t index, const Info **info) {
  if (index >= infos.size())
    return invalid(std::string(kind) + " " + std::to_string(index) + " does not exist: there are " +
                   std::to_string(infos.size()));
  *info = &infos[index];
  return nullptr;
}

} // namespace

rlx_status *rlx_model_load(rlx_engine *engine, const char *path, const rlx_load_options *options, rlx_model **model) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_GIVEN(model);
    *model = nullptr;
    RLX_CAPI_ALIVE(engine);
    RLX_CAPI_GIVEN(path);
    rlx_load_options given = {};
    if (std::optional<Error> error = read(options, given, "rlx_load_options"))
      return fail(std::move(*error));
    LoadOptions load;
    load.weightsFile = given.weights_file ? given.weights_file : "";
    load.dynamicInputs = given.dynamic_inputs != 0;
    Result<LoadedModel> loaded = loadModel(*engine->engine, path, load);
    if (!loaded)
      return fail(loaded.takeError());
    *model = makeModel(std::move(*loaded));
    return nullptr;
  });
}

rlx_status *rlx_model_load_text(rlx_engine *engine, const char *text, size_t bytes, const rlx_load_options *options,
                                rlx_model **model) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_GIVEN(model);
    *model = nullptr;
    RLX_CAPI_ALIVE(engine);
    RLX_CAPI_GIVEN(text);
    rlx_load_options given = {};
    if (std::optional<Error> error = read(options, given, "rlx_load_options"))
      return fail(std::move(*error));
    if (given.dynamic_inputs)
      return invalid("dynamic_inputs is for .onnx files");
    if (bytes > kMostText)
      return invalid("a text of " + std::to_string(bytes) + " bytes is longer than " + std::to_string(kMostText));
    std::shared_ptr<WeightTable> weights;
    if (given.weights_file) {
      Result<std::shared_ptr<WeightTable>> opened = WeightTable::openSafetensors(given.weights_file);
      if (!opened)
        return fail(opened.takeError());
      weights = std::move(*opened);
    }
    Result<LoadedModel> loaded = loadModule(*engine->engine, std::string_view(text, bytes), std::move(weights));
    if (!loaded)
      return fail(loaded.takeError());
    *model = makeModel(std::move(*loaded));
    return nullptr;
  });
}

void rlx_model_destroy(rlx_model **model) { destroy(model); }

rlx_status *rlx_model_get_info(const rlx_model *model, const rlx_model_info **info) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(model);
    RLX_CAPI_GIVEN(info);
    *info = &model->info;
    return nullptr;
  });
}

rlx_status *rlx_model_get_dim(const rlx_model *model, size_t index, const rlx_dim_info **info) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(model);
    RLX_CAPI_GIVEN(info);
    return pick("dim", model->dims, index, info);
  });
}

rlx_status *rlx_model_get_input(const rlx_model *model, size_t index, const rlx_tensor_info **info) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(model);
    RLX_CAPI_GIVEN(info);
    return pick("input", model->inputs, index, info);
  });
}

rlx_status *rlx_model_get_output(const rlx_model *model, size_t index, const rlx_tensor_info **info) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(model);
    RLX_CAPI_GIVEN(info);
    return pick("output", model->outputs, index, info);
  });
}

rlx_status *rlx_model_get_param(const rlx_model *model, size_t index, const rlx_tensor_info **info) {
  return guarded([&]() -> rlx_status * {
    RLX_CAPI_ALIVE(model);
    RLX_CAPI_GIVEN(info);
    return pick("param", model->params, index, info);
  });
}

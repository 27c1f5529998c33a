# Writes BuildId.h: the version, and a digest of what two libraries must have in common to pass objects to each other.
#   cmake -DOUTPUT=... -DVERSION=... -DFLAVOUR=... -DFILES="a;b" -P BuildId.cmake
set(digests "${FLAVOUR}")
foreach(file ${FILES})
  file(SHA256 ${file} digest)
  string(APPEND digests " ${digest}")
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING ${digest} 0 16 digest)
file(WRITE ${OUTPUT} "#define RLX_BUILD_ID \"${VERSION}-${digest}\"\n")

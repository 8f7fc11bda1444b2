# The same with an NVIDIA GPU: docker build -f tools/docker/cuda.Dockerfile -t ocellus:cuda .
#   docker run --rm --gpus all -v "$PWD:/pictures:ro" ocellus:cuda caption /pictures/IMAGE.jpg
# No GPU is there while an image is built: the architectures must be named.
ARG CUDA=12.6.3
FROM nvidia/cuda:${CUDA}-devel-ubuntu24.04 AS build
ARG ARCHITECTURES="86;89;90;120"
COPY . /source
WORKDIR /source
# CUDA 12.6 does not know 120 yet; of the architectures those that this nvcc has are built.
RUN sh tools/setup.sh \
 && known=$(nvcc --list-gpu-arch) \
 && chosen=$(for one in $(echo "$ARCHITECTURES" | tr ';' ' '); do case $known in *compute_$one*) echo "$one" ;; esac; done) \
 && sh tools/build.sh cuda all -DOCELLUS_CUDA_ARCHITECTURES="$(echo $chosen | tr ' ' ';')" -DOCELLUS_BUILD_TESTS=OFF \
 && cd build/cuda && cpack -G DEB -B /packages

FROM nvidia/cuda:${CUDA}-runtime-ubuntu24.04
COPY --from=build /packages/*.deb /packages/
RUN apt-get update -q \
 && apt-get install -q -y --no-install-recommends /packages/ocellus_*.deb /packages/libocellus0*.deb libcurl4 ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home ocellus
USER ocellus
ENTRYPOINT ["ocellus"]
CMD ["--help"]

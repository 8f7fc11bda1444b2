# The program and the library for CPUs: docker build -f tools/docker/cpu.Dockerfile -t ocellus .
#   docker run --rm -v "$PWD:/pictures:ro" ocellus caption /pictures/IMAGE.jpg
FROM debian:12-slim AS build
COPY . /source
WORKDIR /source
RUN sh tools/setup.sh \
 && sh tools/build.sh release all -DOCELLUS_CUDA=OFF -DOCELLUS_BUILD_TESTS=OFF \
 && cd build/release && cpack -G DEB -B /packages

FROM debian:12-slim
COPY --from=build /packages/*.deb /packages/
RUN apt-get update -q \
 && apt-get install -q -y --no-install-recommends /packages/ocellus_*.deb /packages/libocellus0*.deb libcurl4 ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home ocellus
USER ocellus
ENTRYPOINT ["ocellus"]
CMD ["--help"]

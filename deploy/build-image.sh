#!/bin/sh
# Build the image of deploy/Dockerfile with Docker, Podman or Buildah, whichever is here.
#   sh deploy/build-image.sh [NAME:TAG]                   spotsieve:VERSION by default, the tag that the chart asks for
#   BASE=packages sh deploy/build-image.sh                no registry is needed: mmdebstrap makes the base, as root
#   ENGINE=podman BUILD_FLAGS="--build-arg SCHEMES=spotsieve" sh deploy/build-image.sh
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "build-image: $1" >&2
    exit 1
}

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
image=${1:-spotsieve:$version}
engine=${ENGINE:-}
if [ -z "$engine" ]; then
    if docker info >/dev/null 2>&1; then engine=docker
    elif command -v podman >/dev/null; then engine=podman
    elif command -v buildah >/dev/null; then engine=buildah
    else fail "needs an engine that builds images, and found none; start Docker, or run: apt-get install buildah"
    fi
fi

base=""
case ${BASE:-} in
    "") ;;
    packages)
        base=localhost/debian-for-spotsieve:bookworm
        if ! "$engine" inspect "$base" >/dev/null 2>&1; then
            command -v mmdebstrap >/dev/null || fail "BASE=packages needs mmdebstrap; run: apt-get install mmdebstrap"
            root=$(mktemp -d)
            trap 'rm -rf "$root"' EXIT
            mmdebstrap --variant=minbase bookworm "$root/base.tar"
            if [ "$engine" = buildah ]; then
                container=$(buildah from scratch)
                buildah add --quiet "$container" "$root/base.tar" / >/dev/null
                buildah commit --quiet --rm "$container" "$base" >/dev/null
            else
                "$engine" import "$root/base.tar" "$base" >/dev/null
            fi
        fi
        ;;
    *) fail "BASE must be packages or empty, got '$BASE'; leave it out to use the base of deploy/Dockerfile" ;;
esac

# Images in OCI's own format have no health check.
case $engine in
    docker) build="docker build" ;;
    podman) build="podman build --format docker" ;;
    *) build="buildah build --layers --format docker" ;;
esac
# shellcheck disable=SC2086
$build ${base:+--build-arg "DEBIAN_IMAGE=$base"} ${BUILD_FLAGS:-} -f deploy/Dockerfile -t "$image" .

echo "build-image: $image is built. For a cluster, push it to your registry, and name that:"
case $engine in
    docker) echo "  docker tag $image REGISTRY/$image && docker push REGISTRY/$image" ;;
    *) echo "  $engine push $image REGISTRY/$image" ;;
esac
echo "  helm install NAME deploy/chart --set image.registry=REGISTRY"

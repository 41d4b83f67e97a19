#!/bin/sh
# Write the digest of every base image beside its tag, in deploy/Dockerfile and deploy/compose.yaml; again: newer ones.
# It asks the registries of the images through docker's client (buildx).
set -eu
cd "$(dirname "$0")"

for name in $(sed -n 's/^ARG DEBIAN_IMAGE=//p; s/^    image: \(.*:.*\)$/\1/p' Dockerfile compose.yaml); do
    tag=${name%@*}
    if ! digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$tag"); then
        echo "pin-images: $tag must be found in its registry; look at docker's message above, nothing more was changed" >&2
        exit 1
    fi
    case $digest in
        sha256:*) ;;
        *)
            echo "pin-images: docker must answer with a digest for $tag, got '$digest'; update docker's buildx" >&2
            exit 1
            ;;
    esac
    sed -i "s|\([ =]\)$tag\(@sha256:[0-9a-f]*\)\{0,1\}\$|\1$tag@$digest|" Dockerfile compose.yaml
    echo "$tag@$digest"
done

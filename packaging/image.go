package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// The types of the OCI image specification 1.1 (image-spec, media-types.md).
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// imageUser is who the program runs as in the image: nobody that the host has.
const imageUser = 65532

// descriptor names a blob (image-spec, descriptor.md).
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// image is one architecture's: its blobs, the last of which is the manifest.
type image struct {
	arch  string
	blobs [][]byte
}

func describe(mediaType string, blob []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(blob)), Size: len(blob)}
}

// newImage makes an image from scratch: the program, what it brings to
// machines, the folders that it writes to, and nothing else.
func newImage(arch, program string, helpers []entry, r release) (image, error) {
	layer, err := tarOf("", r.time, slices.Concat(helpers, []entry{
		{path: "/etc", folder: true, mode: 0o755},
		{path: "/etc/passwd", text: []byte("root:x:0:0:root:/:/nonexistent\nslipway:x:65532:65532:Slipway:/var/lib/slipway:/nonexistent\n"), mode: 0o644},
		{path: "/etc/group", text: []byte("root:x:0:\nslipway:x:65532:\n"), mode: 0o644},
		{path: "/tmp", folder: true, mode: 0o1777},
		{path: "/usr", folder: true, mode: 0o755},
		{path: "/usr/bin", folder: true, mode: 0o755},
		{path: "/usr/bin/slipway", from: program, mode: 0o755},
		{path: "/usr/lib", folder: true, mode: 0o755},
		{path: "/usr/lib/slipway", folder: true, mode: 0o755},
		{path: "/usr/lib/slipway/agents", folder: true, mode: 0o755},
		{path: "/usr/share/doc/slipway/copyright", from: "../LICENSE", mode: 0o644},
		{path: "/var", folder: true, mode: 0o755},
		{path: "/var/lib", folder: true, mode: 0o755},
		{path: "/var/lib/slipway", folder: true, mode: 0o700, owner: imageUser},
		{path: "/var/lib/slipway-key", folder: true, mode: 0o700, owner: imageUser},
	}))
	if err != nil {
		return image{}, err
	}
	packed, err := gzipped(layer)
	if err != nil {
		return image{}, err
	}
	config, err := json.Marshal(map[string]any{
		"created": r.time.Format(time.RFC3339), "architecture": arch, "os": "linux",
		"config": map[string]any{"User": fmt.Sprintf("%d:%d", imageUser, imageUser), "Env": []string{"PATH=/usr/bin", "SLIPWAY_SITE_KEY=/var/lib/slipway-key/site.key"},
			"Entrypoint": []string{"/usr/bin/slipway"}, "Labels": labels(r)},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{describe("", layer).Digest}},
		"history": []map[string]any{{"created": r.time.Format(time.RFC3339), "created_by": "make packages"}},
	})
	if err != nil {
		return image{}, err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "config": describe(typeConfig, config), "layers": []descriptor{describe(typeLayer, packed)}, "annotations": labels(r),
	})
	return image{arch, [][]byte{packed, config, manifest}}, err
}

// labels are the annotations of the specification (image-spec, annotations.md).
func labels(r release) map[string]string {
	l := map[string]string{
		"org.opencontainers.image.title": "slipway", "org.opencontainers.image.version": r.version, "org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source": homePage, "org.opencontainers.image.created": r.time.Format(time.RFC3339),
	}
	if r.commit != "" {
		l["org.opencontainers.image.revision"] = r.commit
	}
	return l
}

// tag is a version in the letters that the name of an image may have.
func tag(version string) string { return strings.NewReplacer("~", "-", "+", "-").Replace(version) }

// writeLayout writes images as one, in a tar of the OCI image layout
// (image-spec, image-layout.md).
func writeLayout(file string, r release, images []image) error {
	blobs := map[string][]byte{}
	var manifests []descriptor
	for _, i := range images {
		for _, b := range i.blobs {
			blobs[describe("", b).Digest] = b
		}
		d := describe(typeManifest, i.blobs[len(i.blobs)-1])
		d.Platform = &platform{i.arch, "linux"}
		manifests = append(manifests, d)
	}
	all, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": manifests})
	if err != nil {
		return err
	}
	top := describe(typeIndex, all)
	blobs[top.Digest] = all
	top.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag(r.version)}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{top}})
	if err != nil {
		return err
	}
	tree := []entry{
		{path: "oci-layout", text: []byte(`{"imageLayoutVersion":"1.0.0"}`), mode: 0o644}, {path: "index.json", text: index, mode: 0o644},
		{path: "blobs", folder: true, mode: 0o755}, {path: "blobs/sha256", folder: true, mode: 0o755},
	}
	for digest, b := range blobs {
		tree = append(tree, entry{path: "blobs/sha256/" + digest[len("sha256:"):], text: b, mode: 0o644})
	}
	layout, err := tarOf("", r.time, tree)
	if err != nil {
		return err
	}
	return os.WriteFile(file, layout, 0o644)
}

package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// billOfMaterials is a CycloneDX 1.5 document of the modules that are in a
// program, as its build information has them (go version -m).
func billOfMaterials(program string, info *buildinfo.BuildInfo, r release) ([]byte, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	type property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	type hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	type component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		Purl       string     `json:"purl"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	module := func(kind string, m *debug.Module, version string) component {
		purl := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(version, "+", "%2B")
		c := component{Type: kind, Ref: purl, Name: m.Path, Version: version, Purl: purl}
		if m.Sum != "" {
			c.Properties = []property{{"go:sum", m.Sum}}
		}
		return c
	}
	main := module("application", &info.Main, info.Main.Version)
	main.Hashes = []hash{{"SHA-256", fmt.Sprintf("%x", sum)}}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	components := []component{module("library", &debug.Module{Path: "stdlib"}, goVersion)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, module("library", m, m.Version))
	}
	return json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		// A UUID of version 8 (RFC 9562), whose bits are the program's.
		"serialNumber": fmt.Sprintf("urn:uuid:%x-%x-8%03x-8%03x-%x", sum[:4], sum[4:6], (int(sum[6])<<8|int(sum[7]))&0xfff, (int(sum[8])<<8|int(sum[9]))&0xfff, sum[10:16]),
		"metadata":     map[string]any{"timestamp": r.time.Format(time.RFC3339), "component": main},
		"components":   components,
	}, "", "  ")
}

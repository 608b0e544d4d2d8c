package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/site"
)

// versions is what version prints as JSON.
type versions struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Schema  string `json:"schema"`
	Go      string `json:"go"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: exactly(0), Example: "  slipway version --output json",
		RunE: func(*cobra.Command, []string) error {
			v := thisVersion()
			if a.output == "json" {
				return a.out.JSON(v)
			}
			a.out.Printf("slipway %s, schema %s, %s\n", v.Version, v.Schema, v.Go)
			return nil
		},
	}
}

func thisVersion() versions {
	v := versions{Version: "unknown", Schema: site.SchemaVersion, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}

// Package schema carries the CUE definitions that a site is written against,
// so that a site is checked with nothing installed.
package schema

import "embed"

// Path is the import path of the CUE package.
const Path = "github.com/slipway-gitops/slipway/schema"

// Files are the package's files.
//
//go:embed *.cue
var Files embed.FS

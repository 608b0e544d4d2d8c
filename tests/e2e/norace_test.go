//go:build !race

package e2e

// How the daemon is built: as it is released.
var (
	buildFlags = []string{"build"}
	buildEnv   = "CGO_ENABLED=0"
)

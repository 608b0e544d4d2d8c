//go:build race

package e2e

// How the daemon is built: it ends with status 66 if a race was seen.
var (
	buildFlags = []string{"build", "-race"}
	buildEnv   = "CGO_ENABLED=1"
)

//go:build !linux

package main

import "log/slog"

// dropAmbient has nothing to drop where there are no such privileges.
func dropAmbient(*slog.Logger) {}

//go:build race

package artifact

const racing = true

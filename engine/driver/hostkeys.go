package driver

import "context"

type hostKeysKey struct{}

// HearHostKeys is a context for Apply in which hear is told the public host keys of a system
// that is being installed, in authorized_keys form, as soon as they are made: by them the system
// is known where the connection to the agent is lost before it has ended.
func HearHostKeys(ctx context.Context, hear func(keys []string)) context.Context {
	return context.WithValue(ctx, hostKeysKey{}, hear)
}

// HostKeys tells the host keys of a system that is being installed.
func HostKeys(ctx context.Context, keys []string) {
	if hear, ok := ctx.Value(hostKeysKey{}).(func([]string)); ok {
		hear(keys)
	}
}

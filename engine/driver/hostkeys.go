package driver

import "context"

type hostKeysKey struct{}

// HearHostKeys returns a context for Apply that passes the public host keys of a system being
// installed to hear, in authorized_keys form, as soon as they are made. They identify the system if
// the connection to the agent is lost before the step ends.
func HearHostKeys(ctx context.Context, hear func(keys []string)) context.Context {
	return context.WithValue(ctx, hostKeysKey{}, hear)
}

// HostKeys reports the host keys of a system being installed.
func HostKeys(ctx context.Context, keys []string) {
	if hear, ok := ctx.Value(hostKeysKey{}).(func([]string)); ok {
		hear(keys)
	}
}

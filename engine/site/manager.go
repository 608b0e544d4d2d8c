package site

import (
	"cmp"
	"encoding/json"
	"strings"
)

// The manager of a machine was called bmc, also where it is a hypervisor. The last good
// design, what is recorded in files, exports and a daemon that was not started again still
// have that name.
const (
	managerBefore     = "bmc"
	managerPath       = "endpoints.manager"
	managerPathBefore = "endpoints.bmc"
)

// UnmarshalText reads the name of a kind, and that of before.
func (k *EndpointKind) UnmarshalText(text []byte) error {
	if *k = EndpointKind(text); *k == managerBefore {
		*k = Manager
	}
	return nil
}

// pathNow is the path of a field of a node by its present name.
func pathNow(path string) string {
	rest, ok := strings.CutPrefix(path, managerPathBefore)
	if !ok || rest != "" && rest[0] != '.' {
		return path
	}
	return managerPath + rest
}

// UnmarshalJSON reads what is written now, and what was written before.
func (r *Reach) UnmarshalJSON(text []byte) error {
	type plain Reach
	read := struct {
		*plain
		Before Endpoint `json:"bmc"`
	}{plain: (*plain)(r)}
	err := json.Unmarshal(text, &read)
	if r.Manager.URL == "" {
		r.Manager = read.Before
	}
	return err
}

// UnmarshalJSON reads what is written now, and what was written before.
func (a *Adoption) UnmarshalJSON(text []byte) error {
	type plain Adoption
	read := struct {
		*plain
		Before string `json:"bmc"`
	}{plain: (*plain)(a)}
	err := json.Unmarshal(text, &read)
	a.Manager = cmp.Or(a.Manager, read.Before)
	return err
}

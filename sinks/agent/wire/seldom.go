package wire

import "encoding/json"

// What few frames have is encoded by itself. Package json prepares for each type inside a frame before it encodes or
// decodes the first one, even for what is nil there, and that was a twelfth of what the helper takes for a look.

// MarshalJSON implements json.Marshaler.
func (a *Apply) MarshalJSON() ([]byte, error) {
	type plain Apply
	return json.Marshal((*plain)(a))
}

// MarshalJSON implements json.Marshaler.
func (i *Install) MarshalJSON() ([]byte, error) {
	type plain Install
	return json.Marshal((*plain)(i))
}

// MarshalJSON implements json.Marshaler.
func (i *Installed) MarshalJSON() ([]byte, error) {
	type plain Installed
	return json.Marshal((*plain)(i))
}

// MarshalJSON implements json.Marshaler.
func (m *Machine) MarshalJSON() ([]byte, error) {
	type plain Machine
	return json.Marshal((*plain)(m))
}

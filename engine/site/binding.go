package site

// Binding is what ties the writes of a step to the machine whose identity was
// read before them.
type Binding string

// The bindings.
const (
	// BindingUnknown: nothing was seen yet that tells.
	BindingUnknown Binding = ""
	// BindingSession: a write carries the token of the session over which the
	// identity was read. Another machine does not know the token.
	BindingSession Binding = "session"
	// BindingConnection: a write goes over the connection on which the identity
	// was read.
	BindingConnection Binding = "connection"
	// BindingNone: the other side has no sessions and closes the connection
	// after each answer. The identity is read right before a write, and whoever
	// has the address a moment later gets it.
	BindingNone Binding = "none"
)

// Bindings are those that are known, the strongest first.
var Bindings = []Binding{BindingSession, BindingConnection, BindingNone}

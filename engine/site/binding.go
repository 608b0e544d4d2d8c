package site

// Binding says how the writes of a step are tied to the machine whose identity
// was read before them.
type Binding string

// The bindings.
const (
	// BindingUnknown means that the binding has not been observed yet.
	BindingUnknown Binding = ""
	// BindingSession: a write carries the token of the session that read the
	// identity. Another machine does not know the token.
	BindingSession Binding = "session"
	// BindingConnection: a write uses the connection on which the identity was
	// read.
	BindingConnection Binding = "connection"
	// BindingNone: the other side has no sessions and closes the connection
	// after each answer. The identity is read right before a write. If another
	// machine takes over the address in between, that machine gets the write.
	BindingNone Binding = "none"
)

// Bindings are the known bindings, strongest first.
var Bindings = []Binding{BindingSession, BindingConnection, BindingNone}

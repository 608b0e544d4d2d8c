package site

// Service is whether the system of a node answered when it was last asked. It is a
// fact beside the state: a machine can be as designed while nothing answers on it.
type Service string

// The answers. A node without a way into its system has none.
const (
	ServiceUnknown Service = "unknown" // nobody could ask, or has asked yet
	ServiceAnswers Service = "answers"
	ServiceSilent  Service = "silent" // the machine is on, and its system did not answer
	ServiceOff     Service = "off"    // the machine is off
)

package site

// Service says whether a node's system answered when it was last asked. It is independent
// of the state: a machine can be as designed while its system does not answer.
type Service string

// The answers. A node without an endpoint for its system has none.
const (
	ServiceUnknown Service = "unknown" // nobody could ask, or nobody has asked yet
	ServiceAnswers Service = "answers"
	ServiceSilent  Service = "silent" // the machine is on, but its system did not answer
	ServiceOff     Service = "off"    // the machine is off
)

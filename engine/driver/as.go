package driver

// As finds a rarer ability of a driver or of a machine: an interface of its
// own that not every one has. It looks through what wraps them, which says so
// by Unwrap; a plain type assertion would not.
func As[T any](of any) (T, bool) {
	for of != nil {
		if able, ok := of.(T); ok {
			return able, true
		}
		w, ok := of.(interface{ Unwrap() any })
		if !ok {
			break
		}
		of = w.Unwrap()
	}
	var none T
	return none, false
}

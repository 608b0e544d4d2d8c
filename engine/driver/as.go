package driver

// As finds a rarer ability of a driver or machine: an interface that not all of
// them implement. It looks through wrappers, which have an Unwrap method; a
// plain type assertion would not.
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

package control

import _ "embed"

// openAPI is the description of the API, made of the routes by the tests.
//
//go:embed openapi.json
var openAPI []byte

package lab

import "regexp"

// elsewhereHost is a host that no BMC of the lab has (RFC 5737).
const elsewhereHost = "192.0.2.1"

// linkText is a path in what an answer leads to others by.
var linkText = regexp.MustCompile(`"(@odata\.id|Members@odata\.nextLink|target|@Redfish\.ActionInfo|Uri)":"/`)

// absolute gives the links of an answer a scheme and a host, where a fault has it
// so; the Location header has them too then.
func (x *exchange) absolute(text []byte) []byte {
	host := ""
	switch x.fault.Kind {
	case FaultAbsolute:
		host = x.r.Host
	case FaultElsewhere:
		host = elsewhereHost
	default:
		return text
	}
	if at := x.w.Header().Get("Location"); at != "" && at[0] == '/' {
		x.w.Header().Set("Location", "https://"+host+at)
	}
	return linkText.ReplaceAll(text, []byte(`"$1":"https://`+host+`/`))
}

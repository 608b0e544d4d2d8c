package lab

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// speech is how a BMC words its errors.
type speech struct {
	base string // registry of the messages that everybody has
	own  string // registry of the vendor's
	code string // of the error as a whole, <base>.GeneralError without one
	// terse leaves out all but a message's id and arguments.
	terse bool
	// talks answers a change with a message instead of the resource.
	talks bool
}

// message is an entry of a message registry.
type message struct {
	text       string // with %1, %2 … for the arguments
	severity   string
	resolution string
	own        bool // of the vendor's registry
}

// messages are what the BMCs have to say (DSP0266, Error responses; the standard ones are
// those of DSP8011).
var messages = map[string]message{
	"Success":                         {"The request completed successfully.", "OK", "None.", false},
	"GeneralError":                    {"A general error has occurred. See ExtendedInfo for more information.", "Critical", "See ExtendedInfo for more information.", false},
	"MalformedJSON":                   {"The request body submitted was malformed JSON and could not be parsed by the receiving service.", "Critical", "Ensure that the request body is valid JSON and resubmit the request.", false},
	"EmptyJSON":                       {"The request body submitted contained an empty JSON object and the service is unable to process it.", "Warning", "Add properties in the JSON object and resubmit the request.", false},
	"NoOperation":                     {"The request body submitted contain no data to act upon and no changes to the resource took place.", "Warning", "Add properties in the JSON object and resubmit the request.", false},
	"PayloadTooLarge":                 {"The supplied payload exceeds the maximum size supported by the service.", "Critical", "Reduce the size of the payload and resubmit the request.", false},
	"PropertyUnknown":                 {"The property %1 is not in the list of valid properties for the resource.", "Warning", "Remove the unknown property from the request body and resubmit the request if the operation failed.", false},
	"PropertyNotWritable":             {"The property %1 is a read-only property and cannot be assigned a value.", "Warning", "Remove the property from the request body and resubmit the request if the operation failed.", false},
	"PropertyValueNotInList":          {"The value '%1' for the property %2 is not in the list of acceptable values.", "Warning", "Choose a value from the enumeration list that the implementation can support and resubmit the request if the operation failed.", false},
	"PropertyValueTypeError":          {"The value '%1' for the property %2 is not a type that the property can accept.", "Warning", "Correct the value for the property in the request body and resubmit the request if the operation failed.", false},
	"PropertyValueFormatError":        {"The value '%1' for the property %2 is not a format that the property can accept.", "Warning", "Correct the value for the property in the request body and resubmit the request if the operation failed.", false},
	"PropertyValueOutOfRange":         {"The value '%1' for the property %2 is not in the supported range of acceptable values.", "Warning", "Correct the value for the property in the request body and resubmit the request if the operation failed.", false},
	"PasswordChangeRequired":          {"The password provided for this account must be changed before access is granted.  PATCH the Password property for this account located at the target URI '%1' to complete this process.", "Critical", "Change the password for this account using a PATCH to the Password property at the URI provided.", false},
	"PropertyMissing":                 {"The property %1 is a required property and must be included in the request.", "Warning", "Ensure that the property is in the request body and has a valid value and resubmit the request if the operation failed.", false},
	"ActionNotSupported":              {"The action %1 is not supported by the resource.", "Critical", "The action supplied cannot be resubmitted to the implementation. Perhaps the action was invalid, the wrong resource was the target or the implementation documentation may be of assistance.", false},
	"ActionParameterMissing":          {"The action %1 requires the parameter %2 to be present in the request body.", "Critical", "Supply the action with the required parameter in the request body when the request is resubmitted.", false},
	"ActionParameterUnknown":          {"The action %1 was submitted with the invalid parameter %2.", "Warning", "Correct the invalid parameter and resubmit the request if the operation failed.", false},
	"ActionParameterValueNotInList":   {"The value '%1' for the parameter %2 in the action %3 is not in the list of acceptable values.", "Warning", "Choose a value from the enumeration list that the implementation can support and resubmit the request if the operation failed.", false},
	"ActionParameterValueTypeError":   {"The value '%1' for the parameter %2 in the action %3 is not a type that the parameter can accept.", "Warning", "Correct the value for the parameter in the request body and resubmit the request if the operation failed.", false},
	"ActionParameterValueFormatError": {"The value '%1' for the parameter %2 in the action %3 is not a format that the parameter can accept.", "Warning", "Correct the value for the parameter in the request body and resubmit the request if the operation failed.", false},
	"ActionParameterValueConflict":    {"The parameter '%1' with the requested value of '%2' does not meet the constraints of the implementation.", "Warning", "Correct the requested value and resubmit the request if the operation failed.", false},
	"ResourceMissingAtURI":            {"The resource at the URI '%1' was not found.", "Critical", "Place a valid resource at the URI or correct the URI and resubmit the request.", false},
	"ResourceNotFound":                {"The requested resource of type %1 named '%2' was not found.", "Critical", "Provide a valid resource identifier and resubmit the request.", false},
	"ResourceInUse":                   {"The change to the requested resource failed because the resource is in use or in transition.", "Warning", "Remove the condition and resubmit the request if the operation failed.", false},
	"ResourceAlreadyExists":           {"The requested resource of type %1 with the property %2 with the value '%3' already exists.", "Critical", "Do not repeat the create operation as the resource has already been created.", false},
	"CreateLimitReachedForResource":   {"The create operation failed because the resource has reached the limit of possible resources.", "Critical", "Either delete resources and resubmit the request if the operation failed or do not resubmit the request.", false},
	"OperationNotAllowed":             {"The HTTP method is not allowed on this resource.", "Critical", "None.", false},
	"OperationFailed":                 {"An error occurred internal to the service as part of the overall request. Partial results may have been returned.", "Warning", "Resubmit the request. If the problem persists, consider resetting the service or provider.", false},
	"QueryNotSupported":               {"Querying is not supported by the implementation.", "Warning", "Remove the query parameters and resubmit the request if the operation failed.", false},
	"QueryNotSupportedOnResource":     {"Querying is not supported on the requested resource.", "Warning", "Remove the query parameters and resubmit the request if the operation failed.", false},
	"QueryParameterUnsupported":       {"Query parameter '%1' is not supported.", "Warning", "Correct or remove the query parameter and resubmit the request.", false},
	"QueryParameterValueTypeError":    {"The value '%1' for the query parameter %2 is not a type that the parameter can accept.", "Warning", "Correct the value for the query parameter in the request and resubmit the request if the operation failed.", false},
	"QueryParameterValueFormatError":  {"The value '%1' for the parameter %2 is not a format that the parameter can accept.", "Warning", "Correct the value for the query parameter in the request and resubmit the request if the operation failed.", false},
	"QueryParameterOutOfRange":        {"The value '%1' for the query parameter %2 is out of range %3.", "Warning", "Reduce the value for the query parameter to a value that is within range, such as a start or count value that is within bounds of the number of resources in a collection or a page that is within the range of valid pages.", false},
	"HeaderInvalid":                   {"Header '%1' is invalid.", "Critical", "Resubmit the request with a valid request header.", false},
	"PreconditionFailed":              {"The ETag supplied did not match the ETag required to change this resource.", "Critical", "Try the operation again using the appropriate ETag.", false},
	"PreconditionRequired":            {"A precondition header or annotation is required to change this resource.", "Critical", "Try the operation again using an If-Match or If-None-Match header and appropriate ETag.", false},
	"NoValidSession":                  {"There is no valid session established with the implementation.", "Critical", "Establish a session before attempting any operations.", false},
	"ResourceAtUriUnauthorized":       {"While accessing the resource at '%1', the service received an authorization error '%2'.", "Critical", "Ensure that the appropriate access is provided for the service in order for it to access the URI.", false},
	"CouldNotEstablishConnection":     {"The service failed to establish a connection with the URI '%1'.", "Critical", "Ensure that the URI contains a valid and reachable node name, protocol information and other URI components.", false},
	"InsufficientPrivilege":           {"There are insufficient privileges for the account or credentials associated with the current session to perform the requested operation.", "Critical", "Either abandon the operation or change the associated access rights and resubmit the request if the operation failed.", false},
	"SessionLimitExceeded":            {"The session establishment failed due to the number of simultaneous sessions exceeding the limit of the implementation.", "Critical", "Reduce the number of other sessions before trying to establish the session or increase the limit of simultaneous sessions, if supported.", false},
	"ServiceTemporarilyUnavailable":   {"The service is temporarily unavailable. Retry in %1 seconds.", "Critical", "Wait for the indicated retry duration and retry the operation.", false},
	"ServiceInUnknownState":           {"The operation failed because the service is in an unknown state and can no longer take incoming requests.", "Critical", "Restart the service and resubmit the request if the operation failed.", false},
	"InternalError":                   {"The request failed due to an internal service error. The service is still operational.", "Critical", "Resubmit the request. If the problem persists, consider resetting the service.", false},

	// Of iDRAC.
	"RAC0218": {"The maximum number of user sessions is reached.", "Critical", "Close some of the sessions and retry the operation.", true},
	"SYS403":  {"The resource at the URI is not found.", "Critical", "Retry the operation by using the correct resource.", true},
	"SYS011":  {"Pending configuration values are already committed, unable to perform another set operation.", "Warning", "Wait for the scheduled job to complete or delete the configuration job before attempting more set operations.", true},
	"SYS518":  {"iDRAC is not ready. The configuration values cannot be accessed. Please retry after a few minutes.", "Warning", "Retry the operation after a few minutes.", true},
	"PSU501":  {"Server is already powered %1.", "Informational", "No response action is required.", true},

	// Of iLO.
	"MaxSessionsReached":             {"The maximum number of sessions is open.", "Warning", "Close sessions and retry.", true},
	"InvalidOperationForSystemState": {"The operation was not successful due to the current power state of the system.", "Warning", "Bring the system into the power state that the operation needs, and retry.", true},
	"UnableToModifyDuringSystemPOST": {"The change cannot be made while the system is in POST.", "Warning", "Retry when the system has completed its POST.", true},
	"SystemResetRequired":            {"The change was made and needs a reset of the system to take effect.", "Warning", "Reset the system for the change to take effect.", true},
	"LicenseKeyRequired":             {"A license key is required to use this operation or feature.", "Warning", "Install a license key to use this feature.", true},
	"ResourceBeingFlashed":           {"The resource is being updated.", "Warning", "Retry when the update is complete.", true},

	// Of AMI's BMCs.
	"OperationSupportedInFutureStateURI": {"The operation is supported in the future state URI %1.", "Critical", "Send the request to the future state URI.", true},
}

// info is a message as it stands in an error's extended information.
func (s speech) info(id string, args ...string) body {
	m, known := messages[id]
	if !known {
		panic("no message " + id) // they are ours
	}
	registry := s.base
	if m.own && s.own != "" {
		registry = s.own
	}
	b := body{"MessageId": registry + "." + id, "MessageArgs": append([]string{}, args...)}
	if s.terse {
		return b
	}
	text := m.text
	for i, a := range args {
		text = strings.ReplaceAll(text, "%"+strconv.Itoa(i+1), a)
	}
	b["@odata.type"], b["Message"], b["Severity"], b["Resolution"] = "#Message.v1_1_1.Message", text, m.severity, m.resolution
	b["MessageSeverity"] = m.severity
	return b
}

// fault is an error body with extended information (DSP0266, Error responses).
func (s speech) fault(infos ...body) body {
	list := make([]any, len(infos))
	for i, info := range infos {
		list[i] = info
	}
	text := messages["GeneralError"].text
	if s.terse {
		text = "See @Message.ExtendedInfo for more information."
	}
	return body{"error": body{"code": or(s.code, s.base+".GeneralError"), "message": text, "@Message.ExtendedInfo": list}}
}

// say sends a body that is no resource.
func say(w http.ResponseWriter, status int, b body) {
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // it is ours
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	w.Write(text)
}

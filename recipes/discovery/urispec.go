// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"errors"
	"fmt"
	"strings"
)

// The variables of a [UriSpec] that an instance gives values to. Two more are
// braces: "[" is an opening and "]" a closing brace.
const (
	FieldScheme           = "scheme" // https if there is an SSL port, http otherwise
	FieldName             = "name"
	FieldID               = "id"
	FieldAddress          = "address"
	FieldPort             = "port"
	FieldSSLPort          = "ssl-port"
	FieldRegistrationTime = "registration-time-utc"
	FieldServiceType      = "service-type"
)

// UriSpec is a template of a URI, such as "{scheme}://{address}:{port}". It is
// Curator's class of that name.
type UriSpec struct { //nolint:revive // Curator's name
	Parts []Part `json:"parts"`
}

// Part is a text or the name of a variable.
type Part struct {
	Value    string `json:"value"`
	Variable bool   `json:"variable"`
}

// ParseUriSpec reads a template. Variables stand in braces, which may not be
// nested.
func ParseUriSpec(template string) (*UriSpec, error) { //nolint:revive // Curator's name
	spec := UriSpec{Parts: []Part{}}
	variable := false
	for template != "" {
		end := strings.IndexAny(template, "{}")
		if end < 0 {
			end = len(template)
		}
		if token := template[:end]; token != "" {
			if variable {
				token = strings.TrimSpace(token)
			}
			spec.Parts = append(spec.Parts, Part{token, variable})
		}
		if end == len(template) {
			break
		}
		if opens := template[end] == '{'; opens == variable {
			return nil, fmt.Errorf("discovery: brace %q, expected { and } alternating", template[end:end+1])
		}
		variable = !variable
		template = template[end+1:]
	}
	if variable {
		return nil, errors.New("discovery: a variable is not closed, expected }")
	}
	return &spec, nil
}

// Build returns the template with the values of its variables. One without a
// value is left out. The scheme is http unless given.
func (s UriSpec) Build(variables map[string]string) string {
	var b strings.Builder
	for _, part := range s.Parts {
		value, ok := variables[part.Value]
		switch {
		case !part.Variable:
			b.WriteString(part.Value)
		case ok:
			b.WriteString(value)
		case part.Value == FieldScheme:
			b.WriteString("http")
		case part.Value == "[":
			b.WriteString("{")
		case part.Value == "]":
			b.WriteString("}")
		}
	}
	return b.String()
}

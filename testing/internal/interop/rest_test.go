// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/discovery/rest"
	"github.com/gocurator/curator/testing/zktest"
)

// TestRESTResourceOfBothSides: what a client of Curator in Java has registered is served in the bytes of Curator's
// resource, and what is put there in such bytes is what Java then finds.
func TestRESTResourceOfBothSides(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		java, r := newActor(t, server), seeds.New(t)
		handler := rest.Handler(newServices(t, zktest.Client(t, server)), nil, "example.com")
		do := func(method string, i instance, body string) (status int, answer string) {
			w := httptest.NewRecorder()
			target := "/v1/service/" + url.PathEscape(i.Name) + "/" + url.PathEscape(i.ID)
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body)))
			return w.Code, w.Body.String()
		}
		for n := range 40 {
			i := randomInstance(t, r)
			i.Type, i.URI, i.Disabled = []discovery.ServiceType{discovery.Static, discovery.Permanent}[n%2], nil, false
			plain := func(text string) string { return strings.ReplaceAll(text, "\u2028", "") } // which Go escapes
			i.Name, i.ID, i.Address = fmt.Sprintf("service <&> %d", n), fmt.Sprintf("id ä %d", n), plain(i.Address)
			if i.Payload != nil {
				payload := plain(*i.Payload)
				i.Payload = &payload
			}
			document := java.do(t, "rest-write", words(i)...)[0]
			if n < 20 {
				java.do(t, "service-register", append([]string{servicesPath}, words(i)...)...)
			} else {
				status, answer := do(http.MethodPut, i, document)
				require.Equal(t, http.StatusCreated, status, "%s: %s", document, answer)
				require.Equal(t, words(i), java.do(t, "service-list", servicesPath, i.Name))
			}
			status, answer := do(http.MethodGet, i, "")
			require.Equal(t, http.StatusOK, status, answer)
			require.Equal(t, document, answer)
			if n >= 20 {
				status, answer = do(http.MethodDelete, i, "")
				require.Equal(t, http.StatusOK, status, answer)
				require.Empty(t, java.do(t, "service-list", servicesPath, i.Name))
			}
		}
	})
}

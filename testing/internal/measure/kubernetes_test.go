// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// TestDocumentsManifestIsValid decodes the manifest of the production checklist strictly: an unknown field, or one at the
// wrong place, is an error.
func TestDocumentsManifestIsValid(t *testing.T) {
	var deployment apps.Deployment
	decode := func(manifest string) error { return yaml.UnmarshalStrict([]byte(manifest), &deployment) }
	manifest := manifestOf(t)
	require.NoError(t, decode(manifest))
	require.Equal(t, "Deployment", deployment.Kind)
	require.Equal(t, apps.SchemeGroupVersion.String(), deployment.APIVersion)

	pod := deployment.Spec.Template
	require.Equal(t, deployment.Spec.Selector.MatchLabels, pod.Labels)
	require.GreaterOrEqual(t, *pod.Spec.TerminationGracePeriodSeconds, int64(15), "a release takes ten seconds at most, and Close about two")
	container := pod.Spec.Containers[0]
	require.Nil(t, container.LivenessProbe, "it would restart every replica in an outage of ZooKeeper")
	require.Equal(t, container.Ports[0].Name, container.ReadinessProbe.HTTPGet.Port.StrVal)
	require.Equal(t, "metadata.name", container.Env[0].ValueFrom.FieldRef.FieldPath)

	require.ErrorContains(t, decode(strings.Replace(manifest, "readinessProbe", "readynessProbe", 1)), "readynessProbe")
}

// manifestOf returns the only block of YAML in the production checklist.
func manifestOf(t *testing.T) string {
	t.Helper()
	var manifests []string
	for _, block := range fence.FindAllStringSubmatch(content(t, "recipes/PRODUCTION.md"), -1) {
		if block[1] == "yaml" {
			manifests = append(manifests, block[2])
		}
	}
	require.Len(t, manifests, 1)
	return manifests[0]
}

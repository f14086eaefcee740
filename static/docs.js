// Renders the OpenAPI document; the library comes from the server's own package.
const place = document.getElementById("swagger-ui");
SwaggerUIBundle({ url: place.dataset.url, domNode: place, deepLinking: true, validatorUrl: null });
